@classLabel true wave point
@data
1,2,3:0,0,1:wave
4,?:1,1:point
